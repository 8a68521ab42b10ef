//! Generator of `docs/reference/run.md` from the schema.

use crate::schema::{METRICS, TABLES, events};
use std::fmt::Write;

const INTRODUCTION: &str = "# The run directory

<!-- Made from report/src/schema.rs. Change that, then: FARLINK_BLESS=1 cargo test -p farlink-report -->

Every world (simulation, testbed) writes the same directory:

| file | contents |
|---|---|
| `manifest.json` | scenario with its hash, world, seed, versions, machine, start, topology, validity, file checks, results of plain flows |
| `events.parquet`, `bundles.parquet`, `samples.parquet`, `links.parquet`, `processes.parquet` | the tables below |
| `legs.parquet`, `meetings.parquet` | the same, where nodes have positions or radios: what the map of the report is drawn from |
| `nodes/` | testbed only: a folder for each node with its configuration and the output of the node and its applications |
| `captures/` | testbed only: packets of the links with `capture`, as pcapng |
| `supervisor.log` | testbed only: output of the process that holds the hosts and links |

`farlink run` exits with 0 when the run meets the scenario's `[expect]`, with 1 when it failed or missed part
of it (the run is written all the same; standard error, `missed` of `--json` and the report give the expectation
and the result), with 2 for bad input. An existing run directory is replaced only with `--force`.

Bundles that did not arrive have their reasons in the report, in lines `missing` of the summary, and in `missing` of
`--json`: number and fate, such as `expired (2 at relay, 1 at b)`. `validity` of the manifest holds `disturbances`, which
make a run disturbed, `unmeasured`, what the scenario leaves no time or no quiet for (running it again does not help),
and `notes`.

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
and `sequence`. Nodes and links carry the names of the scenario; a node or link without a name is given by its ID.

";

/// Renders the reference of run directories as Markdown.
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
    fn reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/run.md");
        if std::env::var_os("FARLINK_BLESS").is_some() {
            std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference")).unwrap();
            std::fs::write(path, super::reference()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == super::reference(), "{path} is old: FARLINK_BLESS=1 cargo test -p farlink-report");
    }
}
