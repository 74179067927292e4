"""What makes pages of docs/ from the code. Not part of the package."""
