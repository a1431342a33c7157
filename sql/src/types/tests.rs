//! Values read and written, against what PostgreSQL 15 answers.

use super::*;
