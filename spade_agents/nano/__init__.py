"""nano: a small model with its own tokenizer that plays both roles, warm-started on generated programs and plays."""
