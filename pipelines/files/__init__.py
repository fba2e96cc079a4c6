"""The file jobs: track, score, landmarks, and what they leave."""
