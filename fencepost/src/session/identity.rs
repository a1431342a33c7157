//! Who a session is: SET ROLE and SET SESSION AUTHORIZATION, which are settings, and so go back with the transaction.
//!
//! The session user is the role that the session was opened for, or another one where that is a superuser. The current
//! role is the session user, or one that this is a member of, or any where that is a superuser.

use fencepost_sql::catalog::CatalogView;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::settings::{Settings, check_settable_by};

use super::Session;

const ROLE: &str = "role";
const AUTHORIZATION: &str = "session_authorization";

impl Session {
    /// Changes a setting, if the session may be who that says.
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

    /// Takes a setting back to its default.
    pub(super) fn become_default(&mut self, local: bool, name: &str) -> Result<(), SqlError> {
        self.check_settable(name)?;
        self.change(local, |settings| settings.reset(name))?;
        self.identity_changed(local, name)
    }

    /// 42501 for what superusers alone may set.
    fn check_settable(&self, name: &str) -> Result<(), SqlError> {
        match check_settable_by(name, false) {
            Err(denied) if !self.is_superuser(&self.eval.user)? => Err(denied),
            _ => Ok(()),
        }
    }

    /// Another session user has no other role yet, and clients are told who is a superuser.
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

    /// 22023 for a role that is not there, 42501 for one that the session may not be.
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

    /// Says in the settings whether the session begins as a superuser.
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
