"""Values as text: ASCII that the parser reads, Unicode for a terminal, LaTeX for papers."""
