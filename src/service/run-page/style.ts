/** Style of the page of a run: it has no file beside it. */
import { Html } from './html.ts'

export const STYLE = new Html(`
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif;
  --dim: light-dark(#565d65, #a1a9b2); --line: light-dark(#dcdcd6, #30353a); --bad: light-dark(#b42121, #ff8a80);
  --turn: light-dark(#c3cde6, #3d4f78); --model: light-dark(#1f4fc9, #8db0ff); --tool: light-dark(#6f35a8, #cba6f7); }
body { max-width: 1100px; margin: 0 auto; padding: 16px; background: light-dark(#fff, #181b1e); color: light-dark(#1c2024, #e7e9eb); }
h1 { font-size: 20px; white-space: pre-wrap; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 24px 0 8px; }
dl { display: flex; flex-wrap: wrap; gap: 4px 24px; }
dt, dd { display: inline; margin: 0; }
dt { color: var(--dim); margin-right: 6px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 4px 0; font: inherit; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 3px 8px; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
td:first-child, .rows td:nth-child(2), .figures td { white-space: nowrap; font-variant-numeric: tabular-nums; }
small, .dim, thead th { color: var(--dim); font-weight: normal; }
summary { cursor: pointer; }
.bad td, .bad p, .failed, .aborted { color: var(--bad); }
svg { width: 100%; } svg text { font-size: 12px; fill: currentColor; }
rect.turn { fill: var(--turn); } rect.failed { fill: var(--bad); } rect.model { fill: var(--model); } rect.tool { fill: var(--tool); }
rect.folded { fill: var(--line); opacity: 0.5; } line.trouble { stroke: var(--bad); stroke-width: 1.5; }
`)
