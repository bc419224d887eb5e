//! [`weir_load::reader`] as a process, like any function's.

fn main() -> std::process::ExitCode {
    weir_function_runtime::run::main(weir_load::reader::Reader)
}
