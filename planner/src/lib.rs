//! Bound statements to plans, plans to transactions.
