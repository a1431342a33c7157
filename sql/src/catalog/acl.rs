//! Privileges, and access control lists (ACLs).
//!
//! A list has one item for each pair of grantee and grantor. The owner has default privileges
//! without a grant. Any other grantor must hold the *grant option* (ACL-1). If it loses the option,
//! the privileges that it granted are revoked, too.

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges(pub u16);

/// The letters and names of the privileges, in the order of their bits.
const ALL: [(char, &str); 12] = [
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('X', "EXECUTE"),
    ('U', "USAGE"),
    ('C', "CREATE"),
    ('T', "TEMPORARY"),
    ('c', "CONNECT"),
];

impl Privileges {
    /// No privilege.
    pub const NONE: Privileges = Privileges(0);
    /// INSERT
    pub const INSERT: Privileges = Privileges(1);
    /// SELECT
    pub const SELECT: Privileges = Privileges(1 << 1);
    /// UPDATE
    pub const UPDATE: Privileges = Privileges(1 << 2);
    /// DELETE
    pub const DELETE: Privileges = Privileges(1 << 3);
    /// TRUNCATE
    pub const TRUNCATE: Privileges = Privileges(1 << 4);
    /// REFERENCES
    pub const REFERENCES: Privileges = Privileges(1 << 5);
    /// TRIGGER
    pub const TRIGGER: Privileges = Privileges(1 << 6);
    /// EXECUTE
    pub const EXECUTE: Privileges = Privileges(1 << 7);
    /// USAGE
    pub const USAGE: Privileges = Privileges(1 << 8);
    /// CREATE
    pub const CREATE: Privileges = Privileges(1 << 9);
    /// TEMPORARY
    pub const TEMPORARY: Privileges = Privileges(1 << 10);
    /// CONNECT
    pub const CONNECT: Privileges = Privileges(1 << 11);

    /// Returns the privilege of this name; the case does not matter.
    pub fn named(name: &str) -> Option<Privileges> {
        let name = match name.eq_ignore_ascii_case("temp") {
            true => "TEMPORARY",
            false => name,
        };
        let at = ALL
            .iter()
            .position(|(_, of)| of.eq_ignore_ascii_case(name))?;
        Some(Privileges(1 << at))
    }

    /// Returns the union of both sets.
    pub const fn and(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    /// Returns the intersection of both sets.
    pub const fn within(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }

    /// Returns the privileges that `other` does not contain.
    pub const fn without(self, other: Privileges) -> Privileges {
        Privileges(self.0 & !other.0)
    }

    /// Returns whether the set is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the set contains all of these privileges.
    pub const fn has(self, all: Privileges) -> bool {
        self.0 & all.0 == all.0
    }

    /// Returns the single privileges with their names.
    pub fn each(self) -> impl Iterator<Item = (Privileges, &'static str)> {
        let all = ALL.iter().enumerate();
        let one = move |(at, (_, name)): (usize, &(char, &'static str))| {
            let one = Privileges(1 << at);
            self.has(one).then_some((one, *name))
        };
        all.filter_map(one)
    }
}

/// An item of an ACL: the privileges that one role has granted to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclItem {
    /// The oid of the role that holds the privileges; 0 is PUBLIC.
    pub grantee: u32,
    /// The oid of the role that granted them.
    pub grantor: u32,
    /// The granted privileges.
    pub privileges: Privileges,
    /// The privileges that are held with grant option.
    pub options: Privileges,
}

/// The grantee PUBLIC, which stands for all roles.
pub const PUBLIC: u32 = 0;

/// An access control list.
pub type Acl = Vec<AclItem>;

/// Returns the access control list of an object before any grant.
pub fn default_acl(owner: u32, (public, owners): (Privileges, Privileges)) -> Acl {
    let item = |grantee, privileges| AclItem {
        grantee,
        grantor: owner,
        privileges,
        options: Privileges::NONE,
    };
    let mut acl = Vec::new();
    if !public.is_none() {
        acl.push(item(PUBLIC, public));
    }
    if !owners.is_none() {
        acl.push(item(owner, owners));
    }
    acl
}

/// Returns the item of this pair; adds it if there is none.
fn item(acl: &mut Acl, grantee: u32, grantor: u32) -> &mut AclItem {
    let found = acl
        .iter()
        .position(|item| item.grantee == grantee && item.grantor == grantor);
    let at = found.unwrap_or_else(|| {
        acl.push(AclItem {
            grantee,
            grantor,
            privileges: Privileges::NONE,
            options: Privileges::NONE,
        });
        acl.len() - 1
    });
    &mut acl[at]
}

/// Grants privileges from `grantor` to `grantee`.
pub fn grant(acl: &mut Acl, (grantor, grantee): (u32, u32), given: Privileges, option: bool) {
    let item = item(acl, grantee, grantor);
    item.privileges = item.privileges.and(given);
    if option {
        item.options = item.options.and(given);
    }
}

/// The error for a REVOKE without CASCADE while other roles hold dependent privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependent;

/// Revokes privileges that `grantor` granted to `grantee`, or only their grant option. With
/// `cascade`, dependent privileges are revoked, too; without it they are an error.
pub fn revoke(
    acl: &mut Acl,
    (grantor, grantee): (u32, u32),
    taken: Privileges,
    (only_option, cascade): (bool, bool),
    owner: u32,
) -> Result<(), Dependent> {
    let item = item(acl, grantee, grantor);
    let options_before = item.options;
    item.options = item.options.without(taken);
    if !only_option {
        item.privileges = item.privileges.without(taken);
    }
    let lost = options_before.within(taken);
    acl.retain(|item| !item.privileges.is_none());
    if lost.is_none() || grantee == owner || grantee == PUBLIC {
        return Ok(());
    }
    // The grantee may hold the grant option from another grantor, too.
    let still = acl.iter().filter(|item| item.grantee == grantee);
    let still = still.fold(Privileges::NONE, |all, item| all.and(item.options));
    let lost = lost.without(still);
    let given_on: Vec<AclItem> = acl
        .iter()
        .filter(|item| item.grantor == grantee && !item.privileges.within(lost).is_none())
        .copied()
        .collect();
    for on in given_on {
        if !cascade {
            return Err(Dependent);
        }
        revoke(acl, (grantee, on.grantee), lost, (false, true), owner)?;
    }
    Ok(())
}

/// Changes the owner: the privileges that the old owner held or granted become those of the new
/// owner.
pub fn change_owner(acl: &mut Acl, from: u32, to: u32) {
    let mut changed: Acl = Vec::new();
    for old in acl.iter() {
        let of = |role: u32| if role == from { to } else { role };
        let new = item(&mut changed, of(old.grantee), of(old.grantor));
        new.privileges = new.privileges.and(old.privileges);
        new.options = new.options.and(old.options);
    }
    *acl = changed;
}

/// Returns whether two lists have the same items, in any order.
pub fn same(one: &Acl, other: &Acl) -> bool {
    one.len() == other.len() && one.iter().all(|item| other.contains(item))
}

/// Returns the letters of an item's privileges in PostgreSQL's form.
pub fn letters(item: &AclItem) -> String {
    let mut text = String::new();
    for (at, (letter, _)) in ALL.iter().enumerate() {
        let one = Privileges(1 << at);
        if item.privileges.has(one) {
            text.push(*letter);
        }
        if item.options.has(one) {
            text.push('*');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revoking_grant_option_revokes_dependent_grants() {
        let (owner, a, b, c) = (10, 1, 2, 3);
        let both = Privileges::SELECT.and(Privileges::INSERT);
        let mut acl = default_acl(owner, (Privileges::NONE, both));
        grant(&mut acl, (owner, a), both, true);
        grant(&mut acl, (a, b), Privileges::SELECT, true);
        grant(&mut acl, (b, c), Privileges::SELECT, false);
        let plain = (false, false);
        let refused = revoke(&mut acl.clone(), (owner, a), both, plain, owner);
        assert_eq!(refused, Err(Dependent));
        let kept = revoke(&mut acl, (owner, a), Privileges::INSERT, plain, owner);
        assert_eq!(kept, Ok(()));
        assert_eq!(letters(&acl[1]), "r*");
        let revoked = revoke(&mut acl, (owner, a), both, (true, true), owner);
        assert_eq!(revoked, Ok(()));
        let texts: Vec<String> = acl.iter().map(letters).collect();
        assert_eq!(texts, ["ar", "r"]);
    }

    #[test]
    fn privilege_of_two_grantors_ends_when_both_revoke() {
        let (owner, a, b, c) = (10, 1, 2, 3);
        let select = Privileges::SELECT;
        let mut acl = default_acl(owner, (Privileges::NONE, select));
        grant(&mut acl, (owner, a), select, true);
        grant(&mut acl, (owner, b), select, true);
        grant(&mut acl, (b, a), select, true);
        grant(&mut acl, (a, c), select, false);
        let plain = (false, false);
        assert_eq!(revoke(&mut acl, (owner, a), select, plain, owner), Ok(()));
        assert_eq!(
            revoke(&mut acl, (b, a), select, plain, owner),
            Err(Dependent)
        );
    }

    #[test]
    fn new_owner_takes_over_privileges() {
        let mut acl = default_acl(10, (Privileges::USAGE, Privileges::SELECT));
        grant(&mut acl, (10, 7), Privileges::SELECT, false);
        change_owner(&mut acl, 10, 7);
        assert_eq!(acl.len(), 2);
        assert!(acl.iter().all(|item| item.grantor == 7));
        assert_eq!(Privileges::named("temp"), Some(Privileges::TEMPORARY));
        assert_eq!(Privileges::named("x"), None);
    }
}
