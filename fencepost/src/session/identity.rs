//! The roles of a session: SET ROLE and SET SESSION AUTHORIZATION. They are settings, so a rollback
//! restores them.
//!
//! The session user is the role that opened the session; a superuser can change it to another role.
//! The current role is the session user or a role of which it is a member; for a superuser, any
//! role.

use fencepost_sql::catalog::CatalogView;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::settings::{Settings, check_settable_by};

use super::Session;

const ROLE: &str = "role";
const AUTHORIZATION: &str = "session_authorization";

impl Session {
    /// Changes a setting. For a role setting, first checks whether the session may use that role.
    pub(super) fn become_or_set(
        &mut self,
        local: bool,
        name: &str,
        value: &str,
    ) -> Result<(), SqlError> {
        self.check_identity(name, value)?;
        self.check_settable(name)?;
        self.change(local, |settings| settings.set(name, value))?;
        self.identity_changed(local, name)
    }

    /// Resets a setting to its default.
    pub(super) fn become_default(&mut self, local: bool, name: &str) -> Result<(), SqlError> {
        self.check_settable(name)?;
        self.change(local, |settings| settings.reset(name))?;
        self.identity_changed(local, name)
    }

    /// Fails with 42501 if only superusers may set the setting.
    fn check_settable(&self, name: &str) -> Result<(), SqlError> {
        match check_settable_by(name, false) {
            Err(denied) if !self.is_superuser(&self.eval.user)? => Err(denied),
            _ => Ok(()),
        }
    }

    /// Follows a change of a role setting: a new session user clears the role, and the client is
    /// told whether it is a superuser.
    fn identity_changed(&mut self, local: bool, name: &str) -> Result<(), SqlError> {
        let authorization = name.eq_ignore_ascii_case(AUTHORIZATION);
        if !authorization && !name.eq_ignore_ascii_case(ROLE) {
            return Ok(());
        }
        if authorization {
            self.change(local, |settings| settings.reset(ROLE))?;
        }
        let superuser = self.is_superuser(&self.eval.user)?;
        self.change(local, |settings| {
            settings.set_fixed("is_superuser", on(superuser));
            Ok(())
        })
    }

    /// Fails with 22023 for a role that does not exist, and 42501 for a role that the session may
    /// not use.
    pub(super) fn check_identity(&self, name: &str, value: &str) -> Result<(), SqlError> {
        let is_role = name.eq_ignore_ascii_case(ROLE);
        let is_identity = is_role || name.eq_ignore_ascii_case(AUTHORIZATION);
        if !is_identity || (is_role && value == "none") {
            return Ok(());
        }
        let (catalog, _) = self.snapshot();
        let Some(wanted) = catalog.role(value)? else {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("role \"{value}\" does not exist"),
            ));
        };
        let (from, denied) = match is_role {
            true => (
                &self.eval.session_user,
                format!("permission denied to set role \"{value}\""),
            ),
            false => (
                &self.login,
                "permission denied to set session authorization".to_owned(),
            ),
        };
        let member = catalog.role(from)?.filter(|_| is_role);
        let security = catalog.security();
        let is_member = member.is_some_and(|role| security.is_member_of(role.id, wanted.id));
        match value == from || is_member || self.is_superuser(from)? {
            true => Ok(()),
            false => Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, denied)),
        }
    }

    /// Sets the setting that says whether the session starts as a superuser.
    pub(super) fn tell_superuser(&self, settings: &mut Settings) {
        let role = settings.get(ROLE).filter(|role| role != "none");
        let user = role.map_or_else(|| self.login.clone(), |role| role.into_owned());
        let superuser = self.is_superuser(&user).unwrap_or(false);
        settings.set_fixed("is_superuser", on(superuser));
    }

    fn is_superuser(&self, role: &str) -> Result<bool, SqlError> {
        let known = self.snapshot().0.role(role)?;
        Ok(known.is_some_and(|role| role.superuser))
    }
}

fn on(flag: bool) -> &'static str {
    match flag {
        true => "on",
        false => "off",
    }
}
