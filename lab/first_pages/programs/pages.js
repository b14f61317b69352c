// Parses and writes JSON, with a timer between: a server without clients.
const rows = Array.from({length: 4000}, (_, i) => ({id: i, name: 'n' + i, tags: ['a', 'b', i]}));
let left = 150, bytes = 0;
function round() {
	bytes += JSON.stringify(JSON.parse(JSON.stringify(rows)).filter(r => r.id % 3)).length;
	if (--left) setTimeout(round, 5);
	else console.log(bytes);
}
round();
