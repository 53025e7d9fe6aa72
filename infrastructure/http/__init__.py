"""The service over HTTP: reports and commands in, sessions, history and commits out."""
