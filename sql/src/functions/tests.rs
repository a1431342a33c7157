//! Functions against what PostgreSQL 15 answers.
