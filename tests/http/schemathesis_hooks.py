"""What schemathesis has to know beside the OpenAPI document: lines of JSON are sent as text."""

import schemathesis

schemathesis.serializer.alias("application/x-ndjson", "text/plain")
