//! Writes the seeds of all fuzz corpora: `cargo run -p farlink-tests --example write_seeds`.

use farlink_tests::seeds;

fn main() -> std::io::Result<()> {
    for seed in seeds::all() {
        let folder = seeds::corpus(seed.target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(&seed.name), &seed.bytes)?;
    }
    Ok(())
}
