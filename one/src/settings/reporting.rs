//! Reports of a run: classes, folder, and the settings of each.

use super::mistake::Mistake;
use super::setup::{ReportClass, ReportSetup, Reporting, parts, refuse};
use super::values::{Value, Values};
use crate::reports::MessageKind;
use farlink_base::nearest_name;

/// Report classes that are written, with their names.
pub const WRITTEN: [(&str, ReportClass); 9] = [
    ("MessageStatsReport", ReportClass::Statistics),
    ("EventLogReport", ReportClass::EventLog),
    ("ConnectivityONEReport", ReportClass::Connectivity),
    ("ContactTimesReport", ReportClass::Contacts { between: false }),
    ("InterContactTimesReport", ReportClass::Contacts { between: true }),
    ("CreatedMessagesReport", ReportClass::Messages(MessageKind::Created)),
    ("DeliveredMessagesReport", ReportClass::Messages(MessageKind::Delivered)),
    ("MessageDeliveryReport", ReportClass::Messages(MessageKind::Share)),
    ("MessageDelayReport", ReportClass::Messages(MessageKind::Delay)),
];

/// Other report classes of The ONE, which are left out.
const OTHERS: [&str; 26] = [
    "AdjacencyGraphvizReport",
    "BufferOccupancyReport",
    "ConnectivityDtnsim2Report",
    "ConnectivityReportConnector",
    "ContactsDuringAnICTReport",
    "ContactsPerHourReport",
    "DTN2Reporter",
    "DistanceDelayReport",
    "EncountersVSUniqueEncountersReport",
    "EnergyLevelReport",
    "JumpSizeDistributionReport",
    "LocationSnapshotReport",
    "MessageAvailabilityReport",
    "MessageCopyCountReport",
    "MessageGraphvizReport",
    "MessageLocationReport",
    "MessageReport",
    "MovementListenerTestReport",
    "MovementNs2Report",
    "NodeDensityReport",
    "PingAppReporter",
    "RadiusOfGyrationReport",
    "SnapshotReport",
    "TotalContactTimeReport",
    "TotalEncountersReport",
    "UniqueEncountersReport",
];

pub(super) fn of(values: &Values) -> Result<Reporting, Mistake> {
    let folder = values.find(&["Report"], "reportDir");
    let folder = folder.map_or(Ok("reports/".into()), |value| values.filled(&value))?;
    let (name, class) = WRITTEN[0];
    let figures = report(values, name, class)?;
    let mut found = Reporting { folder: folder.into(), reports: Vec::new(), figures, left_out: Vec::new() };
    for number in 1..=parts(&values.need(&["Report"], "nrofReports")?)? {
        let named = values.need(&["Report"], &format!("report{number}"))?;
        let Some(&(name, class)) = WRITTEN.iter().find(|(name, _)| *name == named.text) else {
            // Farlink's own world writes no reports of The ONE, and so needs to know none.
            if !values.translated && !OTHERS.contains(&named.text.as_str()) {
                let names = WRITTEN.iter().map(|(name, _)| *name).chain(OTHERS);
                let near = nearest_name(&named.text, names).map(|near| format!("did you mean {near}?"));
                let hint = near.unwrap_or_else(|| format!("written are {}", written()));
                return Err(named.wrong("no report of The ONE", hint));
            }
            found.left_out.push(named.text);
            continue;
        };
        if found.reports.iter().any(|report| report.class == class) {
            return Err(named.wrong("a second time", "name each report once"));
        }
        found.reports.push(report(values, name, class)?);
    }
    Ok(found)
}

/// Whether reports of a class are written.
pub fn is_written(name: &str) -> bool {
    WRITTEN.iter().any(|(known, _)| *known == name)
}

/// Names of the classes that are written, for hints.
pub fn written() -> String {
    WRITTEN.map(|(name, _)| name).join(", ")
}

fn report(values: &Values, name: &'static str, class: ReportClass) -> Result<ReportSetup, Mistake> {
    let spaces = [name, "Report"];
    refuse(values, "Report", &spaces)?;
    let precision = values.find(&spaces, "precision").map_or(Ok(4), |value| {
        let places = value.whole()?;
        if places > 20 { Err(value.wrong("more than 20 decimals", "write fewer")) } else { Ok(places.max(0) as usize) }
    })?;
    let warmup = values.find(&spaces, "warmup").map_or(Ok(0), |value| value.whole())?;
    let granularity = values.find(&spaces, "granularity").map_or(Ok(1.0), |value: Value| {
        let seconds = value.number()?;
        // A row for each second of a contact: a thousandth bounds the number of rows of a long one.
        if seconds < 1e-3 { Err(value.wrong("less than 0.001", "write seconds")) } else { Ok(seconds) }
    })?;
    Ok(ReportSetup { name, class, warmup: warmup.into(), precision, granularity })
}
