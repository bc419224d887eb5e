//! The region function as a process.

fn main() -> std::process::ExitCode {
    weir_function_runtime::run::main(weir_region::Regions)
}
