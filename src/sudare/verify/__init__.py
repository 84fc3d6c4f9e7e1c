"""Checks of promises: audits of mechanisms, laws of noise, recounts of stored releases."""

from sudare.verify.audit import Audit, audit, audit_outputs

__all__ = ["Audit", "audit", "audit_outputs"]
