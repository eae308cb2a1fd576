"""`play`: a source on any devices, under any stacks of layers, side by side."""
