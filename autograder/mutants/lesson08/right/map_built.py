# Right: the dictionary is built instead of written down.
source_objects = dict.fromkeys(["draft_ms"], "EagleDraftWorker")
source_objects["conditional_acceptance"] = "SpecDecodingStats"
source_objects |= {
    "verify_ms": "EAGLEWorkerV2.verify",
    "overhead_ms": "RejectionSampler",
    "extra_memory_gb": "SpecRuntimeState",
    "kv_rollback": "release_kv_cache",
}
