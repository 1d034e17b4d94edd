"""How each benchmark is measured: its points laid out, launched, checked and put into rows; and that every
kernel gives right results (`functional`)."""
