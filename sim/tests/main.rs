//! Tests of the simulator, linked once as one program.

mod bench_rows;
mod both_ways;
mod common_numbers;
mod custody;
mod far_hellos;
mod faults;
mod lies;
mod link_life;
mod ltp_links;
mod moving;
mod one_way;
mod oracle;
mod own_policies;
mod policies;
mod radios;
mod refusals;
mod reports_and_quotas;
mod run_directory;
mod security;
mod sky;
mod speed;
mod stored;
mod tls;
mod tunnel;
mod two_nodes;
mod watched;
