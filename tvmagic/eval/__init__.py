"""What programs mean on arrays of numbers."""
