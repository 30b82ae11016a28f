"""From a record to people: terminal, JUnit, pictures."""
