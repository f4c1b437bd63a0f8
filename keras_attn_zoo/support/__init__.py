"""What every other package may use: errors, files, locks, downloads, messages, the choice of a backend."""
