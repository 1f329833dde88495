"""What this package refuses."""


class Refused(ValueError):
    """Something that attn-rs-vllm does not do. The text says what was asked, and the way out."""
