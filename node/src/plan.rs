//! Contact plan files.

use farlink_routing::{ContactPlan, contact_plan};

/// Reads a contact plan in any dialect; what could not be followed is logged.
///
/// # Errors
/// Where and why it cannot be understood, and a hint.
pub fn parse(text: &str) -> Result<ContactPlan, String> {
    let parsed = contact_plan::parse(text).map_err(|why| why.to_string())?;
    for warning in &parsed.warnings {
        tracing::warn!("contact plan: {warning}");
    }
    Ok(parsed.plan)
}
