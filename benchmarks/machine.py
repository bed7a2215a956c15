"""What this machine can do at most: its multiply-add peak and the bandwidth of a copy, one thread."""

from tvmagic.operators.peaks import copy_bandwidth, peak_flops

__all__ = ["copy_bandwidth", "peak_flops"]
