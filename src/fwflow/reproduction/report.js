// Figures are enlarged by moving them into a dialog and back; downloads are made of what the page holds.
const large = document.querySelector('dialog'), close = large.querySelector('button');
function save(name, type, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function printed(svg) {
  const paper = '<rect width="100%" height="100%" fill="#ffffff"/>';
  return new XMLSerializer().serializeToString(svg).replaceAll('currentColor', '#1b1d21')
    .replaceAll('var(--faint)', '#d5d8dd').replace(/<svg[^>]*>/, head => head + paper);
}
for (const figure of document.querySelectorAll('figure')) {
  const svg = figure.querySelector('svg'), home = svg.parentElement, tools = figure.querySelector('.tools');
  const [enlarge, image, data] = tools.querySelectorAll('button');
  tools.hidden = false;
  enlarge.onclick = () => {
    large.append(svg);
    large.addEventListener('close', () => home.append(svg), { once: true });
    large.showModal();
  };
  image.onclick = () => save(figure.dataset.name + '.svg', 'image/svg+xml', printed(svg));
  data.onclick = () => save(figure.dataset.name + '.csv', 'text/csv', figure.querySelector('pre').textContent);
}
close.onclick = () => large.close();
large.onclick = event => { if (event.target === large) large.close(); };
