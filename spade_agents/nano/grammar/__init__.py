"""The compositional grammar: documents, state shapes, rules, goals, and the programs and hints made of them."""
