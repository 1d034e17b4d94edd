"""How each benchmark is measured: its points laid out, launched, checked and put into rows."""
