//! `docs/reference/run.md`, made from the schema.

use crate::schema::{METRICS, TABLES, events};
use std::fmt::Write;

const INTRODUCTION: &str = "# The run directory

<!-- Made from report/src/schema.rs. Change that, then: FARLINK_BLESS=1 cargo test -p farlink-report -->

Every world (simulation, testbed) writes the same directory:

| file | contents |
|---|---|
| `manifest.json` | scenario with its hash, world, seed, versions, machine, start, topology, validity, file checks |
| `events.parquet`, `bundles.parquet`, `samples.parquet`, `links.parquet`, `processes.parquet` | the tables below |
| `legs.parquet`, `meetings.parquet` | the same, where nodes have positions or radios: what the map of the report is drawn from |
| `nodes/` | testbed only: a folder for each node with its configuration and what it and its applications said |
| `supervisor.log` | testbed only: what the process that holds the hosts and links said |

`farlink run` exits with 0 when all is as the scenario's `[expect]` says, with 1 when the run failed or missed some
of it (the run is written all the same; standard error, `missed` of `--json` and the report say what was expected
and found), with 2 for bad input. It replaces no directory that holds anything but with `--force`.

The tables are Parquet files (Snappy):

```python
import pandas
bundles = pandas.read_parquet(\"runs/iss-sim/bundles.parquet\")
print((bundles.latency_ns / 1e9).describe())
```

```sql
-- DuckDB
SELECT node, event, count(*) FROM 'runs/iss-sim/events.parquet' GROUP BY ALL ORDER BY ALL;
```

Times count from the start of the run. A bundle is identified by `source`, `service`, `creation_ms`
and `sequence`. Nodes and links carry the names of the scenario; what it does not name has its ID.

";

/// The reference of run directories as Markdown.
pub fn reference() -> String {
    let mut out = String::from(INTRODUCTION);
    for table in TABLES {
        let _ = writeln!(out, "## `{}`\n\n{}\n", table.name, table.help.trim());
        out.push_str("| column | type | unit | may be absent | meaning |\n|---|---|---|---|---|\n");
        for column in table.columns {
            let absent = if column.optional { "yes" } else { "" };
            let (kind, help) = (column.kind.name(), column.help.trim());
            let _ = writeln!(out, "| `{}` | {kind} | {} | {absent} | {help} |", column.name, column.unit);
        }
        out.push('\n');
    }
    out.push_str("## Metrics of `samples`\n\n| metric | unit | meaning |\n|---|---|---|\n");
    for metric in METRICS {
        let _ = writeln!(out, "| `{}` | {} | {} |", metric.name, metric.unit, metric.help);
    }
    out.push_str("\n## Events\n\n| event | meaning |\n|---|---|\n");
    for event in events() {
        let _ = writeln!(out, "| `{}` | {} |", event.name, event.help);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checked_in_reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/run.md");
        if std::env::var_os("FARLINK_BLESS").is_some() {
            std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference")).unwrap();
            std::fs::write(path, super::reference()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == super::reference(), "{path} is old: FARLINK_BLESS=1 cargo test -p farlink-report");
    }
}
