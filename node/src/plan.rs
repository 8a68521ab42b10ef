//! Contact plan files.

use farlink_routing::contact_plan::Parsed;
use farlink_routing::{ContactPlan, contact_plan};

/// Parses a contact plan in any dialect; ignored statements are logged.
///
/// # Errors
/// Position and cause of the first mistake, with a hint.
pub fn parse(text: &str) -> Result<ContactPlan, String> {
    parse_all(text).map(|parsed| parsed.plan)
}

/// As [`parse`], with the contacts that are no part of the plan.
///
/// # Errors
/// As [`parse`].
pub fn parse_all(text: &str) -> Result<Parsed, String> {
    let parsed = contact_plan::parse(text).map_err(|why| why.to_string())?;
    for warning in &parsed.warnings {
        tracing::warn!("contact plan: {warning}");
    }
    Ok(parsed)
}
