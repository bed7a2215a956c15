"""Names that TVM's users reach at `arith._ffi_api`."""

from tvmagic.arith.domain_touched import DomainTouched

__all__ = ["DomainTouched"]
