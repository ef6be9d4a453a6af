typedef int gate_placeholder;
