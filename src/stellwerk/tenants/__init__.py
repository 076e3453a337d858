"""Tenants: who there is, what each may do, and the record of what was done."""
