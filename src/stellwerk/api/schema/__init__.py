"""Response types, their examples, and the OpenAPI document."""
