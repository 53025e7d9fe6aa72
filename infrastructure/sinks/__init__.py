"""The destinations outside this process: webhooks, JetStream, files."""
