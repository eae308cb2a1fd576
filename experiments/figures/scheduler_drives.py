"""Drives of SCHEDULER chapter 4, and how they are probed."""

MTRON, INTEL, OCZ = "mtron-pro-7500", "intel-x25e", "ocz-vertex-ex"
DRIVES = {MTRON: "Mtron", INTEL: "Intel", OCZ: "OCZ"}
HARD_DISK = "hard_disk"
"""A desktop's, as table 2.3 has it: there are no curves of it to fit to."""
WHOLE = "area=0,fill=no"
"""The drive was filled before: requests go to all of it."""
LONG = {OCZ: 3}
"""Times as long as the others: among random writes it pauses for a second and more."""
