//! `sparsefft plan`: what would be done, why, and what it would cost.

use super::search::Search;
use crate::Exit;
use crate::output::{PlanJson, print};
use crate::units::{self, grouped, seconds};
use anyhow::Result;
use serde::Serialize;
use sparsefft::Plan;

/// Say what would be done for a signal of N samples, and what it would cost
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sparsefft plan -n 64Mi -k 50 --snr 20    the plan for 2^26 samples and 50 tones at 20 dB")]
pub struct Args {
    /// Signal length (4M = 4 000 000, 4Mi = 2^22)
    #[arg(short, value_name = "N", value_parser = units::positive, allow_hyphen_values = true)]
    n: u64,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// For `sketch` and `merge`: say what one pass keeps
    #[arg(long)]
    one_pass: bool,

    #[command(flatten)]
    search: Search,
}

#[derive(Serialize)]
struct Answer {
    schema: u32,
    n: u64,
    k: Option<u64>,
    plan: PlanJson,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let problem = args.search.problem(args.n)?;
    let plan = Plan::new(if args.one_pass { problem.one_pass() } else { problem })?;
    let recipe = plan.recipe();
    if args.json {
        let answer = Answer { schema: 1, n: recipe.n, k: recipe.k, plan: PlanJson::new(recipe) };
        print(&(serde_json::to_string(&answer)? + "\n"))?;
        return Ok(Exit::Found);
    }
    let mut text = format!("{plan}\n");
    if !recipe.estimates.is_empty() {
        text += "\npredicted, one core, samples in memory:\n";
        for e in &recipe.estimates {
            text += &format!(
                "  {:<10} {:>10}   {} samples\n",
                e.algorithm.name(),
                seconds(e.nanoseconds * 1e-9),
                grouped(e.samples)
            );
        }
    }
    text += &on_a_gpu(&plan);
    print(&text)?;
    Ok(Exit::Found)
}

/// What the same would take on a GPU.
#[cfg(feature = "cuda")]
fn on_a_gpu(plan: &Plan) -> String {
    let Some(cost) = sparsefft::cuda::predict(plan) else {
        return "  on a GPU: the CPU would do this\n".into();
    };
    let time = |nanoseconds: f64| seconds(nanoseconds * 1e-9);
    let mut text = format!("  on a GPU (as an H200), samples there: {}", time(cost.resident));
    if let Some(here) = cost.from_host {
        text += &format!("; samples here: {}", time(here));
    }
    text + &format!("; {} more to open it\n", time(cost.opening))
}

/// Nothing: this program has no GPU support.
#[cfg(not(feature = "cuda"))]
fn on_a_gpu(_: &Plan) -> String {
    String::new()
}
