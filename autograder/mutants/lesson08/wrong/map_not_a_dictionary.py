# A list of pairs is not the dictionary that was asked for.
source_objects = [("draft_ms", "EagleDraftWorker.draft"), ("verify_ms", "run_eagle_verify")]
