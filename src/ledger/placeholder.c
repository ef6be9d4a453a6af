typedef int ledger_placeholder;
