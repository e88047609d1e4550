"""Explicit Runge-Kutta schemes: Butcher tableaus, their catalogue, certificates and mixture weights."""
