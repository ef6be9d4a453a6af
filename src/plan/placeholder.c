typedef int plan_placeholder;
