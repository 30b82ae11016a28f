"""Where kernels run. A backend takes inputs and gives back raw bytes; it judges nothing."""
