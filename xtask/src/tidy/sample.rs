//! A sample of comments, for reading: `cargo xtask tidy --sample 20 --seed 7`.
//!
//! Every comment block of every crate is equally likely. One seed and one tree give one sample.

use super::tree::Summary;

/// Returns blocks drawn without repetition, as `file:line` and the text, in the order of files.
pub fn sample(files: &[Summary], count: usize, seed: u64) -> Vec<String> {
    let blocks = files
        .iter()
        .flat_map(|file| file.comments.iter().map(move |block| (file, block)));
    let blocks: Vec<_> = blocks.collect();
    let mut generator = fastrand::Rng::with_seed(seed);
    let mut chosen = generator.choose_multiple(0..blocks.len(), count);
    chosen.sort_unstable();
    let printed = chosen.into_iter().map(|index| {
        let (file, block) = blocks[index];
        format!("{}:{}\n{}\n", file.path, block.line, indented(&block.text))
    });
    printed.collect()
}

fn indented(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| format!("    {line}").trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rules::testing::settings;
    use crate::tidy::source::Source;

    fn files() -> Vec<Summary> {
        let settings = settings();
        let text: String = (0..50).map(|number| format!("// c{number}\n\n")).collect();
        let paths = ["a/src/lib.rs", "b/src/lib.rs"];
        paths
            .map(|path| Summary::of(Source::parse(path, &text, &settings)))
            .into()
    }

    #[test]
    fn one_seed_gives_one_sample() {
        assert_eq!(sample(&files(), 10, 7), sample(&files(), 10, 7));
        assert_ne!(sample(&files(), 10, 7), sample(&files(), 10, 8));
    }

    #[test]
    fn sample_repeats_no_block() {
        let mut blocks = sample(&files(), 1000, 1);
        assert!(blocks.contains(&"b/src/lib.rs:3\n    c1\n".to_owned()));
        blocks.sort();
        blocks.dedup();
        assert_eq!(blocks.len(), 100);
    }
}
