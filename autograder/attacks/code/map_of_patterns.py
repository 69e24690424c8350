"""
what: names that match any name if they are read as patterns, prefixes or suffixes
source: own
place: map
"""

source_objects = {
    "conditional_acceptance": ".*",
    "draft_ms": "*",
    "verify_ms": ".",
    "overhead_ms": "()",
    "extra_memory_gb": "::",
    "kv_rollback": ".py",
}
