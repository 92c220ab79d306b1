"""An app whose models are made when it is loaded: as many as BENCH_MODELS says."""
