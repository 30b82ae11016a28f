"""Pure decisions: verdicts, reasons, exit codes. No torch, no tvm, no clock."""
