//! ALTER SYSTEM SET and RESET, and how a session follows the settings of the server.

use std::sync::Arc;

use fencepost_sql::bound::SystemChange;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::settings::{ServerSettings, Settings, check_alterable, display_name};

use super::{Block, Session};

impl Session {
    /// Executes ALTER SYSTEM SET and RESET. The change is stored, and takes effect when the
    /// configuration is read again.
    pub(super) fn alter_system(&mut self, change: &SystemChange) -> Result<&'static str, SqlError> {
        self.outside_block("ALTER SYSTEM")?;
        let denied = match change {
            SystemChange::Set(name, _) | SystemChange::Reset(name) => {
                let name = name.to_ascii_lowercase();
                let name = display_name(&name);
                format!("permission denied to set parameter \"{name}\"")
            }
            SystemChange::ResetAll => {
                "permission denied to perform ALTER SYSTEM RESET ALL".to_owned()
            }
        };
        self.superuser_only(&denied)?;
        match change {
            SystemChange::Set(_, value) if value.contains(['\n', '\r']) => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    "parameter value for ALTER SYSTEM must not contain a newline",
                ));
            }
            SystemChange::Set(name, value) => check_alterable(name, Some(value))?,
            SystemChange::Reset(name) => check_alterable(name, None)?,
            SystemChange::ResetAll => {}
        }
        self.db.configuration.alter(change)?;
        Ok("ALTER SYSTEM")
    }

    /// Adopts changed settings of the server, unless a transaction is open. Without changes it only
    /// reads a counter.
    #[inline]
    pub fn follow_server(&mut self) {
        let generation = self.db.configuration.generation();
        if generation != self.configured && self.block == Block::Idle {
            self.configured = generation;
            self.follow(&self.db.configuration.active());
        }
    }

    #[cold]
    fn follow(&mut self, server: &Arc<ServerSettings>) {
        let mut settings = Settings::clone(&self.lasting);
        settings.follow(server);
        // Outside a transaction there are no values of SET LOCAL.
        self.lasting = Arc::new(settings);
        self.eval.settings = Arc::clone(&self.lasting);
        self.settings_changed();
    }
}
