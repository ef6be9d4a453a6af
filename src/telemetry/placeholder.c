typedef int telemetry_placeholder;
