"""Programs that the bench measures: each one process, one JSON object on its last line."""
