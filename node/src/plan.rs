//! Contact plan files.

use farlink_routing::{ContactPlan, contact_plan};

/// Parses a contact plan in any dialect; ignored statements are logged.
///
/// # Errors
/// Position and cause of the first mistake, with a hint.
pub fn parse(text: &str) -> Result<ContactPlan, String> {
    let parsed = contact_plan::parse(text).map_err(|why| why.to_string())?;
    for warning in &parsed.warnings {
        tracing::warn!("contact plan: {warning}");
    }
    Ok(parsed.plan)
}
