//! Rule `names`: names that the glossary replaced do not come back.
//!
//! Definitions are checked, not uses: files, modules, types, functions and constants. Tables of
//! `xtask/words.toml` say whether a whole name or a word of a name is banned.

use syn::visit::{self, Visit};

use crate::tidy::finding::Finding;
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::settings::{Names, Replacements};
use crate::tidy::source::Source;

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Count,
    check: Check::Source(check),
};

const NAME: &str = "names";
/// File names that name no module.
const ROOTS: [&str; 4] = ["lib", "main", "mod", "build"];

fn check(source: &Source<'_>, findings: &mut Vec<Finding>) {
    let names = &source.settings.words.names;
    let mut visitor = Visitor {
        path: source.path,
        names,
        findings,
    };
    visitor.check_file();
    if let Some(file) = source.syntax() {
        visitor.visit_file(file);
    }
}

struct Visitor<'a> {
    path: &'a str,
    names: &'a Names,
    findings: &'a mut Vec<Finding>,
}

impl Visitor<'_> {
    /// Checks the path; the name of a folder counts at its `mod.rs`.
    fn check_file(&mut self) {
        let path = self
            .path
            .rsplit_once('.')
            .map_or(self.path, |(stem, _)| stem);
        let module = path.strip_suffix("/mod").unwrap_or(path);
        let name = module.rsplit('/').next().unwrap_or(module);
        if !ROOTS.contains(&name) {
            let advice = module_advice(&self.names.modules, module);
            let advice = advice.or_else(|| word_advice(&self.names.words, name));
            self.report(1, name, advice);
        }
    }

    fn check_name(&mut self, ident: &syn::Ident, whole: &Replacements) {
        let name = ident.to_string();
        let advice = whole
            .get(&name)
            .or_else(|| word_advice(&self.names.words, &name));
        self.report(ident.span().start().line, &name, advice);
    }

    fn report(&mut self, line: usize, name: &str, advice: Option<&String>) {
        let Some(advice) = advice else { return };
        let problem = format!("the glossary replaced the name `{name}`");
        let advice = format!("name it after: {advice}");
        self.findings
            .push(Finding::new(NAME, self.path, line, problem, advice));
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let names = self.names;
        match item {
            syn::Item::Struct(item) => self.check_name(&item.ident, &names.types),
            syn::Item::Enum(item) => self.check_name(&item.ident, &names.types),
            syn::Item::Union(item) => self.check_name(&item.ident, &names.types),
            syn::Item::Trait(item) => self.check_name(&item.ident, &names.types),
            syn::Item::Type(item) => self.check_name(&item.ident, &names.types),
            syn::Item::Const(item) => self.check_name(&item.ident, &names.constants),
            syn::Item::Static(item) => self.check_name(&item.ident, &names.constants),
            syn::Item::Mod(item) if item.content.is_some() => {
                let name = item.ident.to_string();
                let advice = module_advice(&names.modules, &name);
                let advice = advice.or_else(|| word_advice(&names.words, &name));
                self.report(item.ident.span().start().line, &name, advice);
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.check_name(&item.ident, &self.names.constants);
        visit::visit_impl_item_const(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.check_name(&signature.ident, &self.names.functions);
        visit::visit_signature(self, signature);
    }
}

/// Returns the advice for a module whose path ends in a banned path.
fn module_advice<'a>(banned: &'a Replacements, module: &str) -> Option<&'a String> {
    let ends = banned.iter().find(|(end, _)| {
        module
            .strip_suffix(end.as_str())
            .is_some_and(|head| head.is_empty() || head.ends_with('/'))
    });
    ends.map(|(_, advice)| advice)
}

/// Returns the advice for a name that has a banned word.
fn word_advice<'a>(banned: &'a Replacements, name: &str) -> Option<&'a String> {
    words(name).iter().find_map(|word| banned.get(word))
}

/// Splits a name in snake or camel case into words in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_after_lower = false;
    for character in name.chars() {
        let is_separator = !character.is_alphanumeric();
        if is_separator || (character.is_uppercase() && is_after_lower) {
            words.push(String::new());
        }
        if let (false, Some(word)) = (is_separator, words.last_mut()) {
            word.extend(character.to_lowercase());
        }
        is_after_lower = character.is_lowercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{NAME, words};
    use crate::tidy::rules::testing::findings;

    fn message(line: usize, name: &str, advice: &str) -> String {
        format!(
            "a.rs:{line}: names: the glossary replaced the name `{name}`; name it after: {advice}"
        )
    }

    #[test]
    fn definition_with_banned_name_is_found() {
        let text = "struct Spread;\nfn settle() {}\nconst NAP: u8 = 1;\nmod door {}\n\
                    impl A {\n    fn take_allotment_now() {}\n}\nenum AllotmentKind {}\n";
        let expected = [
            message(1, "Spread", "`RemoteParticipants`"),
            message(2, "settle", "a verb"),
            message(3, "NAP", "backoff"),
            message(4, "door", "join endpoint"),
            message(6, "take_allotment_now", "region allocation client"),
            message(8, "AllotmentKind", "region allocation client"),
        ];
        assert_eq!(findings(NAME, "a.rs", text), expected);
    }

    #[test]
    fn file_and_folder_with_banned_name_are_found() {
        for path in [
            "a/door.rs",
            "a/door/mod.rs",
            "tcp/card.rs",
            "a/allotment_state.slt",
        ] {
            assert_eq!(findings(NAME, path, "").len(), 1, "{path}");
        }
    }

    #[test]
    fn other_names_and_uses_pass() {
        for path in [
            "a/indoor.rs",
            "door/inside.rs",
            "udp/card.rs",
            "spread/lib.rs",
        ] {
            assert_eq!(findings(NAME, path, ""), [""; 0], "{path}");
        }
        let text = "use b::Spread;\nmod door;\nfn spread() { settle() }\nstruct Spreads;\n";
        assert_eq!(findings(NAME, "a.rs", text), [""; 0]);
    }

    #[test]
    fn name_splits_into_words() {
        assert_eq!(words("OwnAllotment2"), ["own", "allotment2"]);
        assert_eq!(words("own_allotment"), ["own", "allotment"]);
        assert_eq!(words("OWN_ALLOTMENT"), ["own", "allotment"]);
    }
}
