"""Landmarks: detected in crops, cleaned over time, and marks that holds share.

- `detect` follows the face and detects its landmarks; `faces` chooses a face on a whole plate.
- `holds` finds repeated exposures, `dejitter` averages over them; `track` holds the landmarks of a frame.
- `shared_marks` finds marks that several holds show, `mark_search` searches each in the other holds.
- `metrics` measures landmarks: size of the face, noise over time.
"""
